"""Reports: what was judged, for machines and for people. All are made from one document, ``model.Report``."""
