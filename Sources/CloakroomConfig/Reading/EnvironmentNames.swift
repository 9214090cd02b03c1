/// The environment variables that belong to the configuration.
enum EnvironmentVariableNames {
    /// The first word of the key from which a variable's name is made.
    static let prefix = "cloakroom"
    /// What all of them begin with.
    static let variablePrefix = "CLOAKROOM_"
    /// What the variables of the OpenTelemetry specification begin with.
    static let openTelemetryPrefix = "OTEL_"

    /// Whether a variable is one that Kubernetes sets for a service whose name begins with `cloakroom`, and so no typo.
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
