"""ParquetConfig: how files are written inside. The names are those of the writer's own settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from calve.config.layout import parse_columns
from calve.config.settings import Settings, label
from calve.model.errors import ConfigError

KB = 1024
MB = 1024 * KB
FILE_BYTES_MAX = 512 * MB
"""No file passes this size."""

Count = Annotated[int, Field(strict=True, le=2**53)]
Bytes = Annotated[int, Field(strict=True, le=2**50)]


class Compression(StrEnum):
    """Parquet's codecs that Iceberg's readers know."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4"
    BROTLI = "brotli"
    NONE = "none"


_LEVELS = {Compression.ZSTD: (1, 22), Compression.GZIP: (1, 9), Compression.BROTLI: (0, 11)}
_ZSTD_LEVEL = 3


def _dictionary(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str | Iterable) and not isinstance(value, Mapping | bytes):
        return parse_columns(value, "dictionary")
    raise ConfigError(
        f"{label('parquet.dictionary')} is a {type(value).__name__}",
        hint="Give true, false, or the columns that get a dictionary.",
        about="parquet.dictionary",
    )


class ParquetConfig(Settings):
    """Parquet's own settings."""

    PLACE: ClassVar[str] = "parquet."

    if TYPE_CHECKING:
        # Texts and lists are taken where a field holds a parsed value: type checkers may not know that.
        def __init__(self, **data: Any) -> None: ...

    row_group_bytes: Annotated[Bytes, Field(ge=64 * KB, le=FILE_BYTES_MAX)] = 16 * MB
    """Of Arrow memory, gathered before a row group is written."""
    row_group_rows_max: Annotated[Count, Field(ge=1, le=2**31 - 1)] = 1024 * KB
    page_bytes: Annotated[Bytes, Field(ge=KB, le=64 * MB)] = MB
    dictionary: Annotated[bool | tuple[str, ...], BeforeValidator(_dictionary)] = True
    dictionary_bytes_max: Annotated[Bytes, Field(ge=KB, le=64 * MB)] = MB
    compression: Compression = Compression.ZSTD
    compression_level: Annotated[int, Field(strict=True)] | None = Field(default=None, validate_default=True)
    """3 for zstd and the codec's own for the others, when nothing is said."""

    @field_validator("compression", mode="before")
    @classmethod
    def _compression(cls, value: Any) -> Any:
        word = value.strip().lower() if isinstance(value, str) else value
        return Compression.NONE if word == "uncompressed" else word

    @field_validator("compression_level", mode="before")
    @classmethod
    def _default_level(cls, value: object, info: ValidationInfo) -> object:
        return _ZSTD_LEVEL if value is None and info.data.get("compression") is Compression.ZSTD else value

    @model_validator(mode="after")
    def _level_fits(self) -> ParquetConfig:
        level = self.compression_level
        if level is None:
            return self
        least, greatest = _LEVELS.get(self.compression, (0, -1))
        if not least <= level <= greatest:
            takes = f"takes {least} to {greatest}" if greatest >= least else "has no levels"
            raise ConfigError(
                f"{label('parquet.compression_level')} is {level}, but {self.compression} {takes}",
                hint="Leave the level out, or use zstd with 1 to 22.",
                about="parquet.compression_level",
            )
        return self
