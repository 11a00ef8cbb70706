// Package dashboard is the web page of Tenon: the nodes and what they cost, the pods that wait and why, and the story behind each
// object. It shows the documents and the words of the command line, which whoever serves it hands in as a Picture; it reads no cluster,
// decides nothing and changes nothing.
//
// Changes to the cluster are tried, as a question that whoever serves the page answers with a plan, and never made.
//
// A screen is one file here and one template beside it, which is compiled to Go: what it takes from the picture, and how it looks. Pages
// are made on the server and work without scripts; scripts only keep them up to date and let the tile map be walked.
package dashboard

//go:generate go tool -modfile=../tools/go.mod templ generate -log-level error
