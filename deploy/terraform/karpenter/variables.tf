variable "cluster_name" {
  description = "Name of the cluster in EKS."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]*$", var.cluster_name)) && length(var.cluster_name) <= 46
    error_message = "The name of a cluster has letters, digits, - and _; names of roles end in it, which leaves 46 characters."
  }
}

variable "namespace" {
  description = "Namespace of the Helm release."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "Service account of the Helm release."
  type        = string
  default     = "karpenter"
}

variable "controller_role" {
  description = "How the controller's pods get their role: PodIdentity, IRSA, or None to make no role (attach the output policy_arns to one of your own)."
  type        = string
  default     = "PodIdentity"

  validation {
    condition     = contains(["PodIdentity", "IRSA", "None"], var.controller_role)
    error_message = "controller_role is PodIdentity, IRSA or None."
  }
}

variable "oidc_issuer" {
  description = "For IRSA, the cluster's OIDC issuer; with or without https://."
  type        = string
  default     = ""
}

variable "create_node_role" {
  description = "Make the role of the machines, KarpenterNodeRole-CLUSTER. Otherwise node_role_arn says which one they have."
  type        = bool
  default     = true
}

variable "node_role_arn" {
  description = "Role of the machines, with its path, if none is made."
  type        = string
  default     = ""
}

variable "node_policy_arns" {
  description = "Further policies of the role that is made, such as one for a container registry, by any names."
  type        = map(string)
  default     = {}
}

variable "create_access_entry" {
  description = "Let machines join the cluster by an access entry. Its authentication mode has to include API."
  type        = bool
  default     = true
}

variable "create_spot_role" {
  description = "Make the service-linked role of spot instances. An account has at most one, of all its clusters."
  type        = bool
  default     = false
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the roles that are made."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
