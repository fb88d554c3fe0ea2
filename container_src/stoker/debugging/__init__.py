"""Debugging: smdebug on today's stack."""
