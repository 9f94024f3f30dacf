"""Words that texts of benchmarks are made of: few enough to compress as real texts do."""

WORDS = (
    "account", "address", "amber", "arrival", "balance", "basket", "birch", "branch",
    "cargo", "carrier", "channel", "cliff", "contract", "courier", "credit", "customer",
    "delivery", "deposit", "discount", "district", "drift", "ember", "express", "fjord",
    "freight", "glade", "harbour", "inlet", "invoice", "journal", "juniper", "ledger",
    "letter", "market", "merchant", "notice", "order", "parcel", "payment", "platform",
    "postage", "price", "product", "quarter", "receipt", "refund", "region", "return",
)  # fmt: skip
