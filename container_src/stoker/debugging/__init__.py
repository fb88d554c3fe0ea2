"""Debugging: the hook that saves tensors, the rules that judge them, smdebug on today's stack."""
