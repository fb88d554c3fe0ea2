"""What the API answers as an error: the service's code, its wording, its status."""

from __future__ import annotations

_BAD_REQUEST = 400
_INTERNAL = 500


class ApiFault(Exception):
    """A refusal the client sees; raised anywhere below the wire, rendered by it."""

    def __init__(self, code: str, message: str, *, status: int = _BAD_REQUEST) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def validation(message: str) -> ApiFault:
    """The request is not what the service accepts."""
    return ApiFault("ValidationException", message)


def resource_in_use(message: str) -> ApiFault:
    """A name that exists already (SageMaker)."""
    return ApiFault("ResourceInUse", message)


def resource_not_found(message: str) -> ApiFault:
    """SageMaker's word for it; an unknown training job is a `validation`, as in the service."""
    return ApiFault("ResourceNotFound", message)


def log_not_found(message: str) -> ApiFault:
    """CloudWatch Logs' word for it: both SDKs wait for a log group on this code and no other."""
    return ApiFault("ResourceNotFoundException", message)


def log_parameter(message: str) -> ApiFault:
    """CloudWatch Logs' word for a request it does not accept."""
    return ApiFault("InvalidParameterException", message)


def limit_exceeded(message: str) -> ApiFault:
    """More than this platform takes."""
    return ApiFault("ResourceLimitExceeded", message)


def unknown_operation(message: str) -> ApiFault:
    """The service has it, or has it not; this platform has it not."""
    return ApiFault("UnknownOperationException", message)


def internal(message: str) -> ApiFault:
    """The platform's own fault."""
    return ApiFault("InternalFailure", message, status=_INTERNAL)
