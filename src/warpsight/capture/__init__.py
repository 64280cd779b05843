"""From rings to a trace: the layout of segments, reading them, converting them, recovering what was left."""
