"""What AWS says, in the words that `commit.py` knows: every error of botocore and of Glue has a meaning."""

from __future__ import annotations

import inspect
from typing import Any

import boto3
import botocore.exceptions
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from pyiceberg import exceptions as known
from pyiceberg.catalog import Catalog

from calve.config.secret import Secrets
from calve.table import commit
from calve.table.catalogs import aws_errors
from calve.table.catalogs.calls import Metastore, translating

COMMIT_KNOWS = (*commit._REFUSED, *commit._DENIED, *commit._UNKNOWN, known.NoSuchTableError)

UNAUTHORIZED = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "MetadataRetrievalError"),
    *("TokenRetrievalError", "NoAuthTokenError", "RefreshWithMFAUnsupportedError"),
    *("SSOError", "SSOTokenLoadError", "UnauthorizedSSOTokenError"),
    *("LoginError", "LoginRefreshRequired", "LoginInsufficientPermissions", "LoginTokenLoadError"),
    "LoginAuthorizationCodeError",
}
NEVER_SENT = {
    *("ParamValidationError", "ValidationError", "UnknownKeyError", "RangeError", "UnknownParameterError"),
    *("InvalidRegionError", "AliasConflictParameterError", "UnknownEndpointError", "EndpointProviderError"),
    *("EndpointResolutionError", "UnknownEndpointResolutionBuiltInName"),
}
UNREACHABLE = {
    *(
        "ConnectionError",
        "EndpointConnectionError",
        "SSLError",
        "ConnectTimeoutError",
        "ProxyConnectionError",
    ),
}
MAY_HAVE_HAPPENED = {"ReadTimeoutError", "ConnectionClosedError", "HTTPClientError", "ResponseStreamingError"}


def classes() -> list[type[Exception]]:
    found: list[Any] = [kind for _, kind in inspect.getmembers(botocore.exceptions, inspect.isclass)]
    return [kind for kind in found if issubclass(kind, aws_errors.AWS_ERRORS) and kind is not BotoCoreError]


def instance(kind: type[Exception]) -> Exception:
    if issubclass(kind, ClientError):
        return kind({"Error": {"Code": "Unheard", "Message": "m"}}, "UpdateTable")
    error = kind.__new__(kind)
    Exception.__init__(error, "canary")
    return error


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_error_of_botocore_has_a_meaning(kind: type[Exception]) -> None:
    expected: type[Exception] = known.CommitStateUnknownException
    if kind.__name__ in UNAUTHORIZED:
        expected = known.UnauthorizedError
    elif kind.__name__ in NEVER_SENT:
        expected = known.BadRequestError
    elif kind.__name__ in UNREACHABLE:
        expected = known.ServiceUnavailableError
    assert aws_errors.kind_of(instance(kind)) is expected
    assert issubclass(expected, COMMIT_KNOWS)


def test_the_names_above_are_all_botocores() -> None:
    names = {kind.__name__ for kind in classes()}
    assert names >= UNAUTHORIZED | NEVER_SENT | UNREACHABLE | MAY_HAVE_HAPPENED


GLUE = {
    "AccessDeniedException": known.ForbiddenError,
    "AlreadyExistsException": known.BadRequestError,
    "ConcurrentModificationException": known.CommitFailedException,
    "ConflictException": known.CommitFailedException,
    "EntityNotFoundException": known.NoSuchTableError,
    "InvalidInputException": known.BadRequestError,
    "PermissionTypeMismatchException": known.ForbiddenError,
    "ResourceNotReadyException": known.BadRequestError,
    "ResourceNumberLimitExceededException": known.BadRequestError,
    "ThrottlingException": known.TooManyRequestsError,
    "ValidationException": known.BadRequestError,
    "VersionMismatchException": known.CommitFailedException,
}


def glue_codes() -> list[str]:
    client = boto3.Session(region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b").client(
        "glue"
    )
    return sorted(shape.name for shape in client.meta.service_model.error_shapes)


@pytest.mark.parametrize(
    "code",
    sorted(
        {
            *glue_codes(),
            "ExpiredTokenException",
            "UnrecognizedClientException",
            "Throttling",
            "InternalFailure",
        }
    ),
)
def test_every_error_code_of_glue_has_a_meaning(code: str) -> None:
    login = {"ExpiredTokenException", "UnrecognizedClientException"}
    expected = GLUE.get(code, known.CommitStateUnknownException)
    expected = known.UnauthorizedError if code in login else expected
    expected = known.TooManyRequestsError if code == "Throttling" else expected
    error = ClientError({"Error": {"Code": code, "Message": "m"}}, "UpdateTable")
    assert aws_errors.kind_of(error) is expected
    assert issubclass(expected, COMMIT_KNOWS)


def test_a_body_that_is_no_answer_may_have_happened() -> None:
    assert aws_errors.kind_of(ResponseParserError("x")) is known.CommitStateUnknownException


def test_a_secret_in_an_error_of_aws_does_not_show() -> None:
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": "canary-secret is not it"}}, "GetTable")
    told = aws_errors.as_known(error, Secrets(["canary-secret"]))
    assert "canary-secret" not in str(told)
    assert "AccessDenied" in str(told)


class Broken(Exception):
    pass


def test_every_public_method_of_a_catalog_is_translated() -> None:
    def fails(self: Any, *args: Any, **kwargs: Any) -> None:
        raise Broken

    names = [
        name
        for name, method in inspect.getmembers(Catalog, inspect.isfunction)
        if not name.startswith("_") and not isinstance(inspect.getattr_static(Catalog, name), staticmethod)
    ]
    assert {"load_table", "commit_table", "create_table", "namespace_exists", "drop_namespace"} <= {*names}
    members: dict[str, Any] = dict.fromkeys(names, fails)
    members |= {"foreign": (Broken,), "as_known": lambda self, error: known.ForbiddenError("known")}
    members["__abstractmethods__"] = frozenset()
    catalog: Any = object.__new__(translating(type("C", (Metastore,), members)))
    for name in names:
        with pytest.raises(known.ForbiddenError, match="known"):
            getattr(catalog, name)()
