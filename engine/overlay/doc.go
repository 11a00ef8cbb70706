// Package overlay applies NodeOverlays to the catalogs of node classes: it changes prices and adds resources for the pools that an overlay selects,
// and reports for each overlay whether it is in force and why not. Callers apply it when they make a Snapshot, so that all decisions see the changed
// catalogs and no other package has to know of overlays.
package overlay
