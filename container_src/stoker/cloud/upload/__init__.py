"""Folders of this machine as objects of a bucket: each content is sent once."""
