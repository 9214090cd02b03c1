import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Fields that the configuration changes in requests and responses.
extension Exchange {
    /// Whether the client uses https. A proxy in front may terminate TLS. The fields may not have been marked yet.
    var isClientSecure: Bool {
        peer.isTrusted && request.head.fields.contains { $0.name == .xForwardedProto }
            ? CrossSitePolicy.isForwardedSecure(request.head) == true : peer.isSecure
    }

    /// Writes the value of a placeholder in a response: there is only the request id.
    func write(_ value: FieldChanges.Value, into writer: inout HeadWriter) {
        if case .requestID = value { request.writeID(telemetry.record.requestID, into: &writer) }
    }

    /// Returns a head without the fields that have references; their replacements are added to the lines. `nil` if there
    /// are none, or the route does not rewrite.
    func changeReferences(of head: borrowing ResponseHead, adding lines: inout [UInt8]?) -> ResponseHead? {
        guard let rewrite = route?.rewrite, ReferenceRewriter.mayChange(head), let upstream, let pool else {
            return nil
        }
        var head = copy head
        let isPreserved = pool.upstream.configuration.preserveHost && request.hostRange != nil
        // The scheme of the client, whose host it is, and not that of a trusted proxy.
        let isSecure = !isPreserved || isClientSecure
        var references = ReferenceRewriter(rewrite, isSecure: isSecure)
        references.apply(
            &head, host: isPreserved ? request.host ?? [] : pool.upstream.hosts[upstream.targetIndex])
        pool.upstream.metrics.countReferences(rewritten: references.rewritten, unmapped: references.unmapped)
        lines = lines.map { $0 + references.lines } ?? references.lines
        return head
    }

    /// The lines that the configuration adds to a local response, which keeps its own.
    func configuredLines(besides lines: [UInt8]) -> [UInt8] {
        let config = snapshot.config
        let index = request.routeIndex
        let fields =
            config.routes.indices.contains(index)
            ? config.routes[index].responseFields : index < 0 ? config.responseFields : config.ownFields
        return fields?.lines(besides: lines, isSecure: isClientSecure) { write($0, into: &$1) } ?? []
    }
}
