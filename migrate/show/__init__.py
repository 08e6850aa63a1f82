"""Reports as text, as pages and as metrics. Knows reports and calls no verb."""
