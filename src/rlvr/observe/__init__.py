"""What a run tells: metrics, statistics, evaluation, the console, curves."""
