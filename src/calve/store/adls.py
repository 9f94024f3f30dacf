"""Azure Data Lake Storage: `abfss://container@account.dfs.core.windows.net/path`, also as abfs, wasb, wasbs.

The login is, in this order: a SAS token that was given or vended; an account's key; a client's id and secret;
nothing at all; and else the identity that the machine has (environment, workload, managed identity, CLI),
which obstore finds and renews by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from obstore.store import AzureStore

from calve.model.errors import ConfigError, StoreError
from calve.store.access import Access
from calve.store.client import client_options, given, retry_config
from calve.store.vended import Login, provider

hint = (
    "Are the account, the container and adls.account-host right, and may the login write there? Nothing of "
    "this batch was committed; start again when the store answers."
)


def split(location: str) -> tuple[str, str]:
    parts = urlsplit(location, allow_fragments=False)
    container, _, host = parts.netloc.rpartition("@")
    if not container:
        container, host = host, ""
    if not container:
        raise StoreError(
            f"{location!r} names no container",
            hint="Write abfss://container@account.dfs.core.windows.net/folder.",
        )
    key = location.split("/", 3)[3] if location.count("/") > 2 else ""
    return f"{container}@{host}", key


def open_bucket(bucket: str, access: Access) -> Any:
    container, _, host = bucket.partition("@")
    strings = _connection_string(access)
    account = strings.get("AccountName") or access.get("adls.account-name") or host.split(".")[0]
    if not account:
        raise ConfigError(
            f"the container {container} is in no account",
            hint="Give adls.account-name, or write abfss://container@account.dfs.core.windows.net/folder.",
        )
    endpoint = strings.get("BlobEndpoint") or _endpoint(account, access)
    sas = _sas(account, access)
    if sas is None and (shared := strings.get("SharedAccessSignature")) is not None:
        access = replace(access, settings=(*access.settings, ("adls.sas-token", shared)))
        sas = shared
    config = {
        "account_name": account,
        "account_key": strings.get("AccountKey") or access.get("adls.account-key"),
        "tenant_id": access.get("adls.tenant-id"),
        "client_id": access.get("adls.client-id"),
        "client_secret": access.get("adls.client-secret"),
        "token": access.get("adls.token"),
        "authority_host": access.get("adls.authority-host"),
        "endpoint": endpoint,
        "skip_signature": access.is_on("adls.anonymous") or None,
    }
    return AzureStore(
        container,
        config=given(config),
        client_options=client_options(access, endpoint),
        retry_config=retry_config(access),
        credential_provider=None
        if sas is None
        else provider(f"abfss://{bucket}/", access, lambda now: _login(account, now)),
    )


def _login(account: str, access: Access) -> Login:
    sas = _sas(account, access)
    assert sas is not None
    return Login({"sas_token": sas}, _of_account("adls.sas-token-expires-at-ms", account, access))


def _sas(account: str, access: Access) -> str | None:
    found = _of_account("adls.sas-token", account, access)
    return None if found is None else found.removeprefix("?")


def _of_account(name: str, account: str, access: Access) -> str | None:
    """A setting of an account: servers write the account, or its host, behind the name."""
    named = (one for one, _ in access.settings if one.split(".")[: 1 + name.count(".")] == name.split("."))
    fits = [one for one in named if one == f"{name}.{account}" or one.startswith(f"{name}.{account}.")]
    return access.get(*fits, name)


def _endpoint(account: str, access: Access) -> str | None:
    """An endpoint of its own: an emulator, or another cloud."""
    scheme = access.get("adls.blob-storage-scheme") or "https"
    if (authority := access.get("adls.blob-storage-authority")) is not None:
        host = authority.lstrip(".")
        return f"{scheme}://{account}{authority}" if authority != host else f"{scheme}://{host}/{account}"
    own = access.get("adls.account-host")
    return None if own is None else f"{scheme}://{own}"


def _connection_string(access: Access) -> dict[str, str]:
    text = access.get("adls.connection-string") or ""
    pairs = (part.partition("=") for part in text.split(";") if part)
    return {name: value for name, _, value in pairs}
