// Package dashboard is the web page of Tenon: the nodes and their costs, the pods that wait and the reasons, and the history of each object. It
// shows the same documents and sentences as the command line. The server of the page provides them as a Picture. The package reads no cluster,
// decides nothing and changes nothing.
//
// Changes to the cluster are tried, as a question that whoever serves the page answers with a plan, and never made.
//
// A screen is one file here and one template beside it, which is compiled to Go: what it takes from the picture, and how it looks. Pages
// are made on the server and work without scripts; scripts only keep them up to date and let the tile map be walked.
package dashboard

//go:generate go tool -modfile=../tools/go.mod templ generate -log-level error
