"""Properties are held by examples, never by how long an example takes on a busy machine."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
