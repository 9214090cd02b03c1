import CloakroomCore
import Logging

/// The first line of a gateway's log: what runs, with which configuration. Contains addresses and numbers, no secret.
enum StartNotice {
    static func write(_ configuration: GatewayConfiguration, _ status: ConfigStatus, to logger: Logger) {
        var metadata: Logger.Metadata = [
            "event": "start", "version": "\(Cloakroom.version)", "commit": "\(Cloakroom.commit)",
            "store": "\(configuration.session.store.rawValue)",
            "listeners": .array(configuration.listeners.map { listener($0.address, isTLS: $0.tls != nil) }),
            "limits": limits(configuration.limits),
        ]
        if let file = status.file {
            metadata["file"] = "\(file)"
            metadata["config"] = "\(status.hash)"
        }
        if let admin = configuration.admin { metadata["admin"] = listener(admin.address, isTLS: admin.tls != nil) }
        logger.notice("starting", metadata: metadata)
    }

    private static func listener(_ address: HostAndPort, isTLS: Bool) -> Logger.MetadataValue {
        ["address": "\(address)", "tls": .stringConvertible(isTLS)]
    }

    /// Named as in the configuration.
    private static func limits(_ limits: LimitsConfiguration) -> Logger.MetadataValue {
        .dictionary(
            [
                "head": limits.head, "fields": limits.fields, "target": limits.target, "body": limits.body,
                "connections": limits.connections, "connectionsPerAddress": limits.connectionsPerAddress,
                "streamsPerConnection": limits.streamsPerConnection, "requestBuffer": limits.requestBuffer,
                "requestBuffers": limits.requestBuffers, "minimumRate": limits.minimumRate,
                "pressureRate": limits.pressureRate, "inFlightPerAddress": limits.inFlightPerAddress,
                "inFlightPerSession": limits.inFlightPerSession,
            ].mapValues { .stringConvertible($0) })
    }
}
