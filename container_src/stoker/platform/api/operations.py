"""What the wire needs from whoever answers."""

from __future__ import annotations

from typing import Any, Protocol


class Operations(Protocol):
    """Answers operations; `call` may block (the wire runs it in a thread) and raise ApiFault."""

    def call(self, service: str, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer one operation.

        Args:
            service: `sagemaker` or `logs`.
            operation: for example `CreateTrainingJob`.
            params: fits the service model already. Times are seconds since the epoch.

        Returns:
            the answer; times in it are seconds since the epoch, as numbers.
        """
        ...
