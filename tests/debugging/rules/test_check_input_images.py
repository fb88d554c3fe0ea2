"""CheckInputImages: images that are not centred around zero."""

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
from stoker.debugging.rules.check_input_images import CheckInputImages
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.values import REPEATABLE
from tests.debugging.rules.watching import watch

INPUT = Description(name="Net_input_0", kind="input", is_model=True)


def batches(*images, name: str = INPUT.name) -> Run:
    run = Run(descriptions=[INPUT])
    for step, batch in enumerate(images):
        run.save(step, {name: batch})
    return run


def train(folder, rule: CheckInputImages, normalize) -> Run:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    optimizer, loss = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
    with watch(rule, folder) as run:
        for _ in range(10):
            pixels = torch.randint(256, (64, 3, 8, 8))
            optimizer.zero_grad()
            loss(model(normalize(pixels)), torch.arange(64) % 2).backward()
            optimizer.step()
    return run


def test_pixels_from_0_to_1_fire_as_soon_as_500_images_were_seen(tmp_path):
    rule = CheckInputImages()
    run = train(tmp_path, rule, lambda pixels: pixels / 255)
    found = judge(rule, run)
    assert list(found) == [7, 8, 9]  # 8 batches of 64 are 512 images
    assert found[7].tensor == "Sequential_input_0"
    assert found[7].values["mean"] == pytest.approx(0.5, abs=0.01)
    assert found[7].values["samples"] == 512


def test_normalized_pixels_do_not_fire(tmp_path):
    rule = CheckInputImages()
    run = train(tmp_path, rule, lambda pixels: (pixels / 255 - 0.5) / 0.289)
    assert len(run.steps()) == 10
    assert fired(rule, run) == []


def test_images_given_by_keyword_are_the_first_input_too(tmp_path):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 3)

        def forward(self, mask=None, pixel_values=None):
            return self.conv(pixel_values).mean()

    rule, model = CheckInputImages({"threshold_samples": "4"}), Net()
    with watch(rule, tmp_path) as run:
        for _ in range(2):
            nn.functional.l1_loss(model(pixel_values=torch.ones(2, 3, 4, 4)), torch.tensor(0.0))
    assert fired(rule, run) == [1]


@pytest.mark.parametrize(("samples", "steps"), [("1", [0, 1]), ("2", [0, 1]), ("3", [1])])
def test_it_evaluates_once_there_are_enough_images(samples, steps):
    batch = np.ones((2, 1, 2, 2), np.float32)
    assert fired(CheckInputImages({"threshold_samples": samples}), batches(batch, batch)) == steps


def test_how_many_steps_it_needs_follows_from_the_images_of_a_step():
    rule = CheckInputImages({"threshold_samples": "5"})
    assert rule.least_steps() == 1
    assert fired(rule, batches(*[np.zeros((2, 1, 2, 2))] * 2)) == []
    assert rule.least_steps() == 3


@pytest.mark.parametrize(("mean", "fires"), [(0.25, False), (0.251, True), (-0.251, True)])
def test_the_mean_has_to_be_further_from_zero_than_the_limit(mean, fires):
    rule = CheckInputImages({"threshold_mean": "0.25", "threshold_samples": "1"})
    assert bool(fired(rule, batches(np.full((1, 1, 2, 2), mean)))) is fires


def test_one_channel_is_enough_and_is_named():
    image = np.zeros((4, 3, 2, 2))
    image[:, 2] = -1
    found = judge(CheckInputImages({"threshold_samples": "4"}), batches(image))
    assert found[0].message == (
        "the mean of channel 2 of Net_input_0 is -1 at step 0, over 4 images (limit ±0.2)"
    )


def test_the_colours_may_be_on_the_last_axis():
    image = np.zeros((4, 5, 6, 3))
    image[..., 1] = 1
    found = judge(CheckInputImages({"threshold_samples": "4", "channel": "3"}), batches(image))
    assert found[0].values["channel"] == 1
    assert found[0].values["mean"] == 1


def test_bytes_are_pixels_too():
    rule = CheckInputImages({"threshold_samples": "1"})
    found = judge(rule, batches(np.full((2, 3, 9, 9), 200, np.uint8)))
    assert found[0].values["mean"] == 200


@pytest.mark.parametrize("pixels", [np.nan, np.inf, [np.inf, -np.inf]])
def test_images_with_nan_are_left_out_and_do_not_hide_the_others(pixels):
    image = np.ones((3, 1, 2, 2))
    image[0, 0, 0, :] = pixels
    assert fired(CheckInputImages({"threshold_samples": "3"}), batches(image)) == []
    assert fired(CheckInputImages({"threshold_samples": "2"}), batches(image)) == [0]


def test_empty_batches_are_not_images():
    rule = CheckInputImages({"threshold_samples": "1"})
    assert fired(rule, batches(np.ones((0, 3, 2, 2)), np.ones((2, 3, 0, 2)))) == []


def test_an_input_that_is_not_an_image_is_an_error_and_not_silence():
    with pytest.raises(RuleInvalid, match=r"Net_input_0 has the shape \(8, 784\)"):
        fired(CheckInputImages(), batches(np.ones((8, 784))))


def test_a_model_without_images_next_to_one_with_them_is_left_out():
    run = Run(descriptions=[INPUT, replace(INPUT, name="Generator_input_0")])
    run.save(0, {"Net_input_0": np.ones((2, 3, 4, 4)), "Generator_input_0": np.ones((2, 100))})
    assert fired(CheckInputImages({"threshold_samples": "2"}), run) == [0]


def test_steps_without_an_input_say_nothing():
    rule = CheckInputImages({"threshold_samples": "1"})
    run = batches(np.ones((1, 1, 2, 2))).save(1, {"Net_fc.weight": [1.0]})
    assert fired(rule, run) == [0]


def test_a_name_of_the_users_wins_and_the_default_of_the_service_is_the_last_resort():
    bright = np.ones((1, 1, 2, 2))
    run = batches(0 * bright).save(0, {"hybridsequential0_input_0": bright, "extra": bright})
    settings = {"threshold_samples": "1"}
    assert fired(CheckInputImages(settings), run) == []
    assert fired(CheckInputImages({**settings, "regex": "^extra$"}), run) == [0]
    stock = batches(bright, name="hybridsequential0_input_0")
    assert fired(CheckInputImages(settings), stock) == [0]


@REPEATABLE
@given(
    st.lists(
        arrays.arrays(
            np.float32,
            st.tuples(st.integers(0, 3), st.just(2), st.integers(1, 3), st.integers(1, 3)),
            elements=st.floats(-2, 2, width=16),
        ),
        max_size=5,
    ),
    st.integers(1, 6),
    st.floats(0, 1),
)
def test_it_fires_exactly_where_numpy_says(images, samples, threshold):
    expected, seen = [], []
    for step, batch in enumerate(images):
        seen += [[channel.mean(dtype=float) for channel in image] for image in batch]
        if len(seen) >= samples:
            distance = max(abs(mean) for mean in np.mean(seen, axis=0)) - threshold
            if abs(distance) < 1e-9:
                return  # too close for sums in another order
            if distance > 0:
                expected.append(step)
    rule = CheckInputImages({"threshold_samples": str(samples), "threshold_mean": repr(threshold)})
    assert fired(rule, batches(*images)) == expected


@pytest.mark.parametrize(
    "settings", [{"threshold_mean": "-1"}, {"threshold_samples": "0"}, {"channel": "0"}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(RuleInvalid, match=next(iter(settings))):
        CheckInputImages(settings)
