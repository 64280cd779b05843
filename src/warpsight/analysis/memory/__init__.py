"""Memory over time: the peak, leaks, wrong frees, churn."""
