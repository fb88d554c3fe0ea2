"""The custom rule of AWS's guide, in the form its guide shows."""

from smdebug.rules.rule import Rule


class CustomGradientRule(Rule):
    def __init__(self, base_trial, threshold=10.0):
        super().__init__(base_trial)
        self.threshold = float(threshold)

    def invoke_at_step(self, step):
        for name in self.base_trial.tensor_names(collection="gradients"):
            gradient = self.base_trial.tensor(name)
            mean = gradient.reduction_value(step, "mean", abs=True)
            if mean > self.threshold:
                return True
        return False
