/// Names of the environment variables of the configuration.
enum EnvironmentVariableNames {
    /// The first component of the key that a variable name is generated from.
    static let prefix = "cloakroom"
    /// The prefix of the configuration variables.
    static let variablePrefix = "CLOAKROOM_"
    /// The prefix of the OpenTelemetry variables.
    static let openTelemetryPrefix = "OTEL_"

    /// Whether Kubernetes sets the variable for a service whose name begins with `cloakroom`; such a variable is not a
    /// typo.
    static func isServiceLink(_ name: String, value: String) -> Bool {
        if name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT") { return true }
        let schemes = ["tcp://", "udp://", "sctp://"]
        if name.hasSuffix("_PORT"), schemes.contains(where: value.hasPrefix) { return true }
        guard let port = name.firstRange(of: "_PORT_") else { return false }
        let parts = name[port.upperBound...].split(separator: "_")
        return (2...3).contains(parts.count) && parts[0].allSatisfy(\.isNumber)
            && ["TCP", "UDP", "SCTP"].contains(parts[1])
            && (parts.count == 2 || ["PROTO", "PORT", "ADDR"].contains(parts[2]))
    }
}
