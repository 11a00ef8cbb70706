//go:build !crdschema

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LabelValue is the value of a label. For the API server it is a separate type with a syntax, which schema.go declares. In Go it is plain
// text.
type LabelValue = string

// NodeClaimCondition is a condition of a NodeClaim. The API server accepts more values than for other kinds, as schema.go declares. In Go it
// is the usual type.
type NodeClaimCondition = metav1.Condition
