"""What a run was like, for people and for programs: functions of a record and its timeline."""
