"""The tune loop: reactions, proposals, approvals."""
