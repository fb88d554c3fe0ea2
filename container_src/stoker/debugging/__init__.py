"""Debugging: the hook that saves tensors, the rules on them, smdebug on current stacks."""
