"""What an error of AWS proves, by its type and its code.

A code that AWS documents as a refusal is one; a login that is not accepted, or no longer, is a matter of the
login; whatever is left may have happened, and the table tells. So is a code that nobody foresaw.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    EndpointProviderError,
    HTTPClientError,
    InvalidConfigError,
    InvalidRegionError,
    LoginError,
    MetadataRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    RefreshWithMFAUnsupportedError,
    SSLError,
    SSOError,
    TokenRetrievalError,
    UnknownEndpointError,
    ValidationError,
)
from botocore.parsers import ResponseParserError
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from calve.config.secret import Secrets
from calve.model.errors import AccessDenied, CalveError, CatalogError, ConfigError
from calve.store.aws import no_login

AWS_ERRORS: Final = (BotoCoreError, ClientError, ResponseParserError)

# fmt: off
_CODES: Final[dict[str, type[Exception]]] = {
    **dict.fromkeys((
        "ConcurrentModificationException", "VersionMismatchException", "ConflictException",
    ), CommitFailedException),
    **dict.fromkeys((
        "AccessDenied", "AccessDeniedException", "NotAuthorized", "UnauthorizedOperation", "OptInRequired",
        "PermissionTypeMismatchException",
    ), ForbiddenError),
    **dict.fromkeys((
        "ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed", "InvalidToken",
        "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch",
        "IncompleteSignature", "IncompleteSignatureException", "MissingAuthenticationToken",
        "MissingAuthenticationTokenException", "UnrecognizedClientException",
    ), UnauthorizedError),
    **dict.fromkeys((
        "AlreadyExistsException", "InvalidInputException", "ResourceNotReadyException",
        "ResourceNumberLimitExceededException", "ValidationError", "ValidationException",
    ), BadRequestError),
    **dict.fromkeys((
        "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded", "RequestThrottled",
        "TooManyRequestsException", "SlowDown",
    ), TooManyRequestsError),
    "EntityNotFoundException": NoSuchTableError,
}
# fmt: on
_LOGIN: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    MetadataRetrievalError,
    TokenRetrievalError,
    NoAuthTokenError,
    RefreshWithMFAUnsupportedError,
    SSOError,
    LoginError,
)
_NOT_SENT: Final = (ParamValidationError, ValidationError, EndpointProviderError, UnknownEndpointError)


def as_known(error: Exception, secrets: Secrets) -> Exception:
    """An error of AWS as one of those that `commit.py` knows."""
    return kind_of(error)(secrets.redact(_text(error)))


def kind_of(error: Exception) -> type[Exception]:
    """What an error of AWS proves. Pure."""
    if isinstance(error, ClientError):
        return _CODES.get(_code(error), CommitStateUnknownException)
    if isinstance(error, _LOGIN):
        return UnauthorizedError
    if isinstance(error, _NOT_SENT):
        return BadRequestError
    if isinstance(error, ConnectionError):
        return ServiceUnavailableError
    return CommitStateUnknownException


@contextmanager
def opening(place: str, secrets: Secrets, *, region_hint: str) -> Iterator[None]:
    """The errors of the first request to a service, as our own."""
    try:
        yield
    except AWS_ERRORS as error:
        raise _opened(error, place, secrets, region_hint) from error
    except ValueError as error:
        raise ConfigError(
            f"{place} cannot be: {secrets.redact(str(error))}", hint="An endpoint reads https://host:port."
        ) from None


def _opened(error: Exception, place: str, secrets: Secrets, region_hint: str) -> CalveError:
    reason = secrets.redact(_text(error))
    if isinstance(error, NoRegionError):
        return ConfigError(f"{place} has no region", hint="Give client.region, or set AWS_REGION.")
    if isinstance(error, NoCredentialsError | PartialCredentialsError | NoAuthTokenError):
        return no_login(place)
    if isinstance(error, InvalidRegionError | EndpointProviderError | UnknownEndpointError):
        return ConfigError(f"{place} cannot be: {reason}", hint=region_hint)
    if isinstance(error, InvalidConfigError):
        return ConfigError(f"{place}: {reason}", hint="Look at ~/.aws/config and ~/.aws/credentials.")
    kind = kind_of(error)
    if kind in (UnauthorizedError, ForbiddenError):
        return AccessDenied(
            f"{place} does not accept the AWS login: {reason}",
            hint="Are key, secret and token of one login, and still good? Is this machine's clock right?",
        )
    if isinstance(error, SSLError):
        return CatalogError(
            f"{place} has a certificate that is not trusted, or speaks no TLS: {reason}",
            hint="Set AWS_CA_BUNDLE to the file of a private CA, or use http:// for an endpoint without TLS.",
        )
    if isinstance(error, ConnectionError | HTTPClientError):
        return CatalogError(f"{place} cannot be reached: {reason}", hint=region_hint)
    return CatalogError(
        f"{place} refused the first request: {reason}",
        hint="Is it the service that is meant? Nothing was changed.",
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _text(error: Exception) -> str:
    return (
        f"{_code(error)}: {error}" if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
    )
