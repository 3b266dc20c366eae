"""The tune loop: what a person says about a skill's output becomes one small, approved edit of its overlay."""
