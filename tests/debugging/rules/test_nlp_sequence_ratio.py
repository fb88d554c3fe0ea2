"""NLPSequenceRatio: batches that are mostly padding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.rules.nlp_sequence_ratio import NLPSequenceRatio
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.values import REPEATABLE
from tests.debugging.rules.watching import watch

WORDS = Description(name="words_input_0", kind="input", module="words", module_class="Embedding")


def batches(*sequences) -> Run:
    run = Run(descriptions=[WORDS])
    for step, batch in enumerate(sequences):
        run.save(step, {WORDS.name: batch})
    return run


def train(folder, rule: NLPSequenceRatio, lengths: list[int], padded: int) -> Run:
    """A classifier of sentences; each step's sentences have one length and are padded with 0."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(4 * padded, 2))
    optimizer, loss = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    with watch(rule, folder) as run:
        for length in lengths:
            tokens = torch.zeros(8, padded, dtype=torch.long)
            tokens[:, :length] = torch.randint(1, 50, (8, length))
            optimizer.zero_grad()
            loss(model(tokens), torch.arange(8) % 2).backward()
            optimizer.step()
    return run


def test_short_sentences_padded_to_the_longest_of_all_fire_where_they_come(tmp_path):
    rule = NLPSequenceRatio()
    found = judge(rule, train(tmp_path, rule, [16, 8, 7, 12, 3], padded=16))
    assert list(found) == [2, 4]
    assert found[2].tensor == "0_input_0"
    assert found[2].message == (
        "token 0 makes up 56.2 % of 0_input_0 at step 2: 72 of 128 (limit 50 %)"
    )


def test_sentences_of_like_lengths_do_not_fire(tmp_path):
    rule = NLPSequenceRatio()
    run = train(tmp_path, rule, [16, 15, 14, 13, 8], padded=16)
    assert len(run.steps()) == 5
    assert fired(rule, run) == []


class Encoder(nn.Module):
    """Embeddings as BERT has them, called by keywords, with an output that is a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(50, 4)
        self.position_embeddings = nn.Embedding(8, 4)
        self.token_type_embeddings = nn.Embedding(2, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, input_ids=None, labels=None):
        hidden = self.word_embeddings(input_ids)
        hidden = hidden + self.position_embeddings(torch.arange(8))
        hidden = hidden + self.token_type_embeddings(torch.zeros_like(input_ids))
        logits = self.head(hidden.mean(dim=1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_token_types_that_are_all_0_are_not_padding(tmp_path):
    rule, model = NLPSequenceRatio(), Encoder()
    with watch(rule, tmp_path) as run:
        for length in (8, 4, 3):
            tokens = torch.ones(2, 8, dtype=torch.long)
            tokens[:, length:] = 0
            model(input_ids=tokens, labels=torch.tensor([0, 1]))["loss"].backward()
    assert run.at(0).find("token_type_embeddings_input_0").value().max() == 0
    found = judge(rule, run)
    assert list(found) == [2]
    assert found[2].tensor == "word_embeddings_input_0"


def test_half_of_a_batch_is_not_more_than_half():
    assert fired(NLPSequenceRatio(), batches([0, 1], [0, 0, 1])) == [1]


def test_each_token_has_its_own_limit():
    settings = {"token_values": "0, 7", "token_thresholds_percent": "50, 10"}
    found = judge(NLPSequenceRatio(settings), batches([0, 1, 2, 7], [0, 1, 2, 3]))
    assert found[0].values == {"token": 7, "percent": 25, "threshold_percent": 10}
    assert list(found) == [0]


def test_embeddings_of_positions_and_token_types_are_not_tokens():
    names = ("embeddings.position_embeddings", "embeddings.token_type_embeddings", "wpe")
    descriptions = [replace(WORDS, name=f"{name}_input_0", module=name) for name in names]
    run = Run(descriptions=[WORDS, *descriptions])
    run.save(0, {d.name: np.zeros((2, 4)) for d in descriptions} | {WORDS.name: [1, 2]})
    assert fired(NLPSequenceRatio(), run) == []
    # … unless the user wants them.
    assert fired(NLPSequenceRatio({"tensor_regex": "token_type"}), run) == [0]


def test_an_embedding_bag_gets_tokens_first_and_offsets_second():
    bag = replace(WORDS, name="bag_input_0", module="bag", module_class="EmbeddingBag")
    offsets = replace(bag, name="bag_input_1", position=1)
    run = Run(descriptions=[bag, offsets]).save(0, {bag.name: [1, 2, 3], offsets.name: [0]})
    assert fired(NLPSequenceRatio(), run) == []
    assert fired(NLPSequenceRatio({"token_values": "2", "token_thresholds_percent": "30"}), run)


def test_the_default_of_the_service_is_the_last_resort():
    run = Run().save(0, {"bertencoder0_embedding0_input_0": [0, 0, 1]})
    assert fired(NLPSequenceRatio(), run) == [0]


def test_empty_and_missing_sequences_say_nothing():
    run = batches(np.zeros((0, 4))).save(1, {"Net_fc.weight": [0.0]})
    assert fired(NLPSequenceRatio({"token_thresholds_percent": "0"}), run) == []


@REPEATABLE
@given(
    arrays.arrays(
        np.int64, arrays.array_shapes(max_dims=3, max_side=4), elements=st.integers(0, 4)
    ),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 100)), min_size=1, max_size=3),
)
def test_it_fires_exactly_when_numpy_says(sequences, tokens):
    settings = {
        "token_values": ",".join(str(token) for token, _ in tokens),
        "token_thresholds_percent": ",".join(str(limit) for _, limit in tokens),
    }
    expected = any(100 * (sequences == t).sum() / sequences.size > limit for t, limit in tokens)
    assert bool(fired(NLPSequenceRatio(settings), batches(sequences))) is bool(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token_values": "0,1"}, "token_values has 2 entries and token_thresholds_percent 1"),
        ({"token_values": "zero"}, "token_values is 'zero'"),
        ({"token_thresholds_percent": ""}, "token_thresholds_percent is ''"),
        ({"token_thresholds_percent": "101"}, "holds 101: expected 0 to 100"),
        ({"token_thresholds_percent": "-1"}, "holds -1: expected 0 to 100"),
        ({"token_thresholds_percent": "nan"}, "holds nan: expected 0 to 100"),
        ({"tensor_regex": "("}, "not a valid regular expression"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(RuleInvalid, match=message):
        NLPSequenceRatio(settings).needs()
