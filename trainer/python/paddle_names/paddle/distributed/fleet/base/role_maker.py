"""The sources of a rank."""

from tandem.fleet import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker

__all__ = ["PaddleCloudRoleMaker", "Role", "UserDefinedRoleMaker"]
