//go:build !crdschema

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LabelValue is the value of a label. For the API server it is a type of its
// own with a syntax, which schema.go declares; in Go it is plain text.
type LabelValue = string

// NodeClaimCondition is a condition of a NodeClaim. The API server accepts
// more than for other kinds, which schema.go declares; in Go it is the usual type.
type NodeClaimCondition = metav1.Condition
