"""The scaling part of an application for computing time, as a document."""
