"""A tour through what smdebug's documentation shows: run as a program by test_smdebug_tour.

    python smdebug_tour.py SMDEBUG FOLDER RESULTS [S3_OUT_DIR]

SMDEBUG is a wheel or a folder with one. Each stop returns what a user would look at.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import google.protobuf
import numpy as np
import smdebug
import smdebug.pytorch as smd
import torch
from smdebug.analysis.utils import no_refresh, refresh
from smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet, TensorUnavailable
from smdebug.rules import Rule, invoke_rule
from smdebug.trials import create_trial
from torch import nn
from torch.nn import functional as F

FOLDER = Path(sys.argv[2])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.relu, self.fc2 = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)

    def forward(self, x):
        return self.fc2(self.relu(self.fc1(x)))


def make_training():
    torch.manual_seed(0)
    net = Net()
    return net, torch.optim.SGD(net.parameters(), lr=0.1), nn.CrossEntropyLoss()


def train(hook, net, optimizer, criterion, *, steps=4, mode=None):
    """Steps as in any script; the losses, and the weights at the beginning of each step."""
    losses, weights = [], []
    if mode is not None:
        hook.set_mode(mode)
    for step in range(steps):
        weights.append(net.fc1.weight.detach().numpy().copy())
        optimizer.zero_grad()
        loss = criterion(net(torch.ones(3, 4) * (step + 1)), torch.tensor([0, 1, 1]))
        if mode is not smd.modes.EVAL:
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses, weights


def hook_from_json():
    """The configuration of a SageMaker job, as its file has it: strings only."""
    config = FOLDER / "debughookconfig.json"
    parameters = {"save_interval": "2", "eval.save_interval": "1", "save_all": "false"}
    collections = [
        {"CollectionName": "weights", "CollectionParameters": {"save_interval": "1"}},
        {
            "CollectionName": "gradients",
            "CollectionParameters": {"reductions": "mean,max,abs_l2_norm,l1_norm"},
        },
        {"CollectionName": "mine", "CollectionParameters": {"include_regex": "relu_output,fc2"}},
    ]
    config.write_text(
        json.dumps(
            {
                "LocalPath": str(FOLDER / "json"),
                "HookParameters": parameters,
                "CollectionConfigurations": collections,
            }
        )
    )
    os.environ["SMDEBUG_CONFIG_FILE_PATH"] = str(config)
    hook = smd.Hook.create_from_json_file()
    net, optimizer, criterion = make_training()
    hook.register_hook(net)
    hook.register_loss(criterion)
    losses, weights = train(hook, net, optimizer, criterion, mode=smd.modes.TRAIN)
    eval_losses, _ = train(hook, net, optimizer, criterion, steps=2, mode=smd.modes.EVAL)
    hook.close()
    trial = smd.create_trial(str(FOLDER / "json"))
    saved = trial.tensor("CrossEntropyLoss_output_0")
    weight = trial.tensor("Net_fc1.weight")
    gradient = trial.tensor("gradient/Net_fc1.weight")
    return {
        "train_losses": [losses[0], losses[2]],
        "train_losses_read": [float(v) for v in saved.values(smd.modes.TRAIN).values()],
        "eval_losses": eval_losses,
        "eval_losses_read": [float(v) for v in saved.values(smd.modes.EVAL).values()],
        "weight_steps": weight.steps(smd.modes.TRAIN),
        "weights_equal": all(
            np.array_equal(weight.value(i, mode=smd.modes.TRAIN), w) for i, w in enumerate(weights)
        ),
        "gradient_reductions": sorted(map(list, gradient.reduction_values(0))),
        "gradient_has_no_value": _error(lambda: gradient.value(0)),
        "mine": sorted(trial.tensor_names(collection="mine")),
    }


def questions_to_a_trial():
    trial = create_trial(str(FOLDER / "json"), name="tour")
    part = create_trial(str(FOLDER / "json"), range_steps=(1, 3))
    with no_refresh(trial):
        names = trial.tensor_names(step=0, mode=smd.modes.TRAIN, regex="fc1")
    with refresh(trial):
        trial.wait_for_steps([0, 1])
    weight = trial.tensor("Net_fc1.weight")
    return {
        "name": trial.name,
        "names": sorted(names),
        "gradients": len(trial.tensor_names(collection="gradients")),
        "losses": trial.tensor_names(collection=smd.CollectionKeys.LOSSES),
        "steps": trial.steps(),
        "steps_of_eval": trial.steps(mode=smd.modes.EVAL),
        "modes": sorted(mode.name for mode in trial.modes()),
        "mode": [trial.mode(4).name, trial.mode_step(4), trial.global_step(smd.modes.EVAL, 1)],
        "workers": [trial.workers(), weight.workers(0)],
        "collections": sorted({"weights", "gradients", "mine"} & trial.collections().keys()),
        "regex": trial.collection("mine").include_regex,
        "has": [trial.has_tensor("Net_fc1.weight"), trial.has_tensor("nothing")],
        "passed": [trial.has_passed_step(1).name, trial.has_passed_step(99).name],
        "previous": weight.prev_steps(3, n=2),
        "range": part.steps(),
        "no_such_tensor": _error(lambda: trial.tensor("nothing"), TensorUnavailable),
        "no_more": _error(lambda: trial.wait_for_steps([99]), NoMoreData),
    }


def hook_by_hand():
    modes = {
        smd.modes.TRAIN: smd.SaveConfigMode(save_interval=2, start_step=2),
        smd.modes.EVAL: smd.SaveConfigMode(save_steps=[1], save_interval=100),
    }
    hook = smd.Hook(
        out_dir=str(FOLDER / "hand"),
        export_tensorboard=True,
        save_config=smd.SaveConfig(mode_save_configs=modes),
        reduction_config=smd.ReductionConfig(
            reductions=["min", "max", "mean", "std", "variance", "sum", "prod"],
            abs_reductions=["mean"],
            norms=["l1", "l2"],
            abs_norms=["l2"],
            save_raw_tensor=True,
        ),
        include_collections=["weights", "biases", "activations"],
        include_regex=["fc2_input"],
    )
    net, optimizer, criterion = make_training()
    hook.get_collection("activations").add_module_tensors(net.relu, inputs=True, outputs=True)
    hook.get_collection("biases").save_histogram = False
    hook.register_module(net)
    hook.register_loss(criterion)
    losses, _ = train(hook, net, optimizer, criterion, steps=5, mode=smd.modes.TRAIN)
    hook.save_scalar("accuracy", 0.75)
    train(hook, net, optimizer, criterion, steps=2, mode=smd.modes.EVAL)
    hook.close()
    trial = smd.create_trial(str(FOLDER / "hand"))
    bias = trial.tensor("Net_fc2.bias")
    value = bias.value(2, mode=smd.modes.TRAIN).astype(np.float64)
    read = bias.reduction_values(2, mode=smd.modes.TRAIN)
    computed = {
        ("min", False): value.min(),
        ("max", False): value.max(),
        ("mean", False): value.mean(),
        ("std", False): value.std(ddof=1),
        ("variance", False): value.var(ddof=1),
        ("sum", False): value.sum(),
        ("prod", False): value.prod(),
        ("mean", True): np.abs(value).mean(),
        ("l1", False): np.abs(value).sum(),
        ("l2", False): np.sqrt((value**2).sum()),
        ("l2", True): np.sqrt((value**2).sum()),
    }
    return {
        "train_steps": trial.steps(mode=smd.modes.TRAIN),
        "eval_steps": trial.steps(mode=smd.modes.EVAL),
        "reductions_differ": [
            key for key, number in computed.items() if not np.isclose(read[key], number, rtol=1e-5)
        ],
        "reductions": len(read),
        "activations": sorted(trial.tensor_names(collection="activations")),
        "default": sorted(trial.tensor_names(collection="default")),
        "scalar": float(trial.tensor("scalar/accuracy").value(4, mode=smd.modes.TRAIN).item()),
        "losses": [losses[2], losses[4]],
    }


def functional_loss_and_own_tensors():
    hook = smd.Hook(
        out_dir=str(FOLDER / "functional"),
        include_collections=["losses"],
        save_config=smd.SaveConfig(save_interval=1),
    )
    net, optimizer, _ = make_training()
    hook.register_module(net)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(torch.ones(3, 4)), torch.tensor([0, 1, 1]))
        hook.record_tensor_value(tensor_name="my_loss", tensor_value=loss)
        hook.save_tensor("image", np.full((2, 2), 7.0), collections_to_write="default")
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    hook.close()
    trial = smd.create_trial(str(FOLDER / "functional"))
    read = trial.tensor("my_loss_output_0").values()
    return {
        "losses": losses,
        "losses_read": [float(value) for value in read.values()],
        "in_losses": trial.tensor_names(collection="losses"),
        "image": trial.tensor("image").value(1).tolist(),
    }


class Growing(Rule):
    """Fires when the loss of a step is above that of the step before."""

    def __init__(self, base_trial, margin="0"):
        super().__init__(base_trial)
        self.margin = float(margin)
        self.seen = []

    def set_required_tensors(self, step):
        self.req_tensors.add("my_loss_output_0", steps=[step])

    def invoke_at_step(self, step):
        self.seen.append(step)
        (tensor,) = self.req_tensors.get()
        if step == 0:
            return False
        return tensor.value(step) > tensor.value(step - 1) + self.margin


def custom_rule():
    trial = smd.create_trial(str(FOLDER / "functional"))
    quiet = Growing(trial)
    ended = _error(lambda: invoke_rule(quiet), NoMoreData)
    firing = Growing(trial, margin="-100")
    fired = _error(
        lambda: invoke_rule(firing, start_step=0, end_step=3, raise_eval_cond=True),
        RuleEvaluationConditionMet,
    )
    return {"seen": quiet.seen, "ended": ended, "fired": fired, "fired_at": firing.seen[-1]}


def hook_on_demand():
    smd.del_hook()
    os.environ["USE_SMDEBUG"] = "0"
    switched_off = smd.get_hook(create_if_not_exists=True)
    del os.environ["USE_SMDEBUG"]
    return {"switched_off": switched_off is None}


def output_on_s3():
    if len(sys.argv) < 5:
        return None
    out_dir = sys.argv[4]
    hook = smd.Hook(
        out_dir=out_dir,
        include_collections=["gradients"],
        save_config=smd.SaveConfig(save_interval=1),
    )
    net, optimizer, criterion = make_training()
    hook.register_module(net)
    hook.register_loss(criterion)
    losses, _ = train(hook, net, optimizer, criterion, steps=3)
    hook.close()
    trial = smd.create_trial(out_dir)
    read = trial.tensor("CrossEntropyLoss_output_0").values()
    return {
        "losses": losses,
        "losses_read": [float(value) for value in read.values()],
        "gradients": len(trial.tensor_names(collection="gradients")),
    }


def _error(call, kind=Exception):
    try:
        call()
    except kind as error:
        return type(error).__name__
    return None


STOPS = (
    *(hook_from_json, questions_to_a_trial, hook_by_hand, functional_loss_and_own_tensors),
    *(custom_rule, hook_on_demand, output_on_s3),
)

if __name__ == "__main__":
    stack = {"numpy": np.__version__, "protobuf": google.protobuf.__version__}
    seen = {"version": smdebug.__version__, "stack": stack}
    seen |= {stop.__name__: stop() for stop in STOPS}
    Path(sys.argv[3]).write_text(json.dumps(seen, indent=1))
