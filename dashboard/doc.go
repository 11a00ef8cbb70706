// Package dashboard is the web page of Tenon: the nodes and their costs, the pods that wait and the reasons, and the history of each object. It
// shows the same documents and sentences as the command line. The server of the page provides them as a Picture. The package reads no cluster,
// decides nothing and changes nothing.
//
// A user can try changes to the cluster: the server of the page answers with a plan. The page never makes a change.
//
// A screen is one file here and one template beside it, which is compiled to Go: the file takes data from the picture, and the template shows it.
// Pages are made on the server and work without scripts. Scripts only keep pages up to date.
package dashboard

//go:generate go tool -modfile=../tools/go.mod templ generate -log-level error
