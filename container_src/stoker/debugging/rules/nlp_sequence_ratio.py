"""Too many tokens of a batch are padding, or otherwise one and the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.tensor_choice import role_needs, union
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import RuleInvalid

_NEED = Need(
    collection="input_sequence",
    module_classes=("Embedding", "EmbeddingBag"),
    side="input",
    position=0,
    fallback_regex=".*embedding0_input_0",
)
# These embeddings do not get tokens. The token types of BERT are all 0 for single sentences.
_NOT_OF_TOKENS = re.compile(r"position|pos_emb|\bwpe\b|token_type|type_emb|segment")


class NLPSequenceRatio(Rule):
    """Too large a share of a batch of sequences is one token: mostly padding, or unknown words.

    Fires when one of `token_values` makes up more than its percentage, at the same place in
    `token_thresholds_percent`, of the tokens of a step. Looks at the inputs of Embedding modules,
    except those of positions and token types.

    It happens when short and long sequences are padded to one length, and when the vocabulary
    does not fit the text.

    What usually helps: batches of sequences of like lengths, padding to the longest of the batch
    only, another tokenizer.
    """

    tensor_regex: str = parameter(
        _NEED.fallback_regex, "names of the sequences; by default the inputs of the embeddings"
    )
    token_values: str = parameter("0", "the tokens to count, with commas between")
    token_thresholds_percent: str = parameter(
        "50", "how much of a batch each of them may be, in percent, with commas between"
    )

    def validate(self) -> None:
        tokens, limits = self._tokens(), self._limits()
        if len(tokens) != len(limits):
            raise RuleInvalid(
                f"token_values has {len(tokens)} entries and token_thresholds_percent "
                f"{len(limits)}",
                fix="give one percentage for each token, in the same order",
            )
        wrong = [limit for limit in limits if not 0 <= limit <= 100]
        if wrong:
            raise RuleInvalid(
                f"token_thresholds_percent holds {wrong[0]:g}: expected 0 to 100",
                fix=self.parameters["token_thresholds_percent"].help,
            )

    def needs(self) -> Sequence[Need]:
        return role_needs(_NEED, self.tensor_regex)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        found = union(tensors, self.needs())
        if self.tensor_regex == _NEED.fallback_regex:
            found = [t for t in found if not _NOT_OF_TOKENS.search(t.description.module)]
        return next(filter(None, (self._evaluate(step, tensor) for tensor in found)), None)

    def _evaluate(self, step: int, tensor: SavedTensor) -> Finding | None:
        sequences = tensor.value()
        for token, limit in zip(self._tokens(), self._limits(), strict=True):
            count = int(np.count_nonzero(sequences == token))
            percent = 100 * count / max(1, sequences.size)
            if percent > limit:
                return Finding(
                    message=f"token {token:g} makes up {percent:.3g} % of {tensor.name} at step "
                    f"{step}: {count} of {sequences.size} (limit {limit:g} %)",
                    tensor=tensor.name,
                    values={"token": token, "percent": percent, "threshold_percent": limit},
                    hint="put sequences of like lengths into a batch, pad to its longest only, "
                    "and look at the tokenizer's vocabulary if the token means unknown",
                )
        return None

    def _tokens(self) -> list[float]:
        return self._numbers("token_values", self.token_values)

    def _limits(self) -> list[float]:
        return self._numbers("token_thresholds_percent", self.token_thresholds_percent)

    def _numbers(self, name: str, text: str) -> list[float]:
        try:
            return [float(number) for number in text.split(",")]
        except ValueError:
            raise RuleInvalid(
                f"parameter {name} is {text!r:.80}: expected numbers with commas between",
                fix=self.parameters[name].help,
            ) from None
