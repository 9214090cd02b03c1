public import CloakroomCore
import FoundationEssentials
import Glibc
import Tracing

/// The OpenTelemetry resource: the attributes common to all spans of this process.
public struct OTelResource: Sendable {
    /// Names and values; names are unique.
    let attributes: [(name: String, value: SpanAttribute)]
    /// The version of the gateway, also used for the instrumentation scope.
    let version: String

    /// Describes this process.
    ///
    /// - Parameters:
    ///   - serviceName: `service.name`.
    ///   - version: `service.version`.
    ///   - attributes: Further attributes. They override detected ones such as `host.name`, but not the service name
    ///     and the SDK attributes. The last of two with one name wins.
    public init(serviceName: String, version: String, attributes: [TracingConfiguration.ResourceAttribute] = []) {
        let found: [(String, SpanAttribute)] = [
            ("service.version", .string(version)),
            ("service.instance.id", .string(UUID().uuidString.lowercased())),
            ("host.name", .string(Self.hostName)),
            ("process.pid", .int64(Int64(getpid()))),
        ]
        let fixed: [(String, SpanAttribute)] = [
            ("service.name", .string(serviceName)),
            ("telemetry.sdk.name", .string("cloakroom")),
            ("telemetry.sdk.language", .string("swift")),
            ("telemetry.sdk.version", .string(version)),
        ]
        let given = attributes.map { ($0.name, SpanAttribute.string($0.value)) }
        var values: [String: SpanAttribute] = [:]
        for (name, value) in found + given + fixed { values[name] = value }
        self.attributes = values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        self.version = version
    }

    private static var hostName: String { ProcessInfo.processInfo.hostName }
}
