"""Results for the places where teams look: test reports, comments, dashboards, badges."""
