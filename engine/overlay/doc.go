// Package overlay lays NodeOverlays over what node classes sell: it corrects prices and adds resources for the pools that an overlay
// selects, and says of each overlay whether it is in force and why not. It only computes; whoever makes a Snapshot calls it, so that
// all decisions see corrected catalogs and nothing else has to know of overlays.
package overlay
