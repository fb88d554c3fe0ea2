"""The user's machine: building, pushing and running the image. Never imports torch."""
