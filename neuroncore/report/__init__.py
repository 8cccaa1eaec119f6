"""Reports about a run, for people and for programs: functions of a record and its timeline."""
