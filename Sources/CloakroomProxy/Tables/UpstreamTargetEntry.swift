import CloakroomCore
import Logging
import NIOCore
import NIOSSL

/// A target made ready for connections, shared by all event loops.
final class TargetRuntime: Sendable {
    /// What is connected to.
    enum Endpoint: Sendable {
        case address(SocketAddress)
        case name(TargetResolver)
        case socket(path: String)
    }

    /// What its connections are encrypted with.
    struct TLS: Sendable {
        let context: NIOSSLContext
        /// The name to ask for and to verify; `nil` verifies the IP address.
        let serverName: String?
    }

    /// What operators know it by: `http://host:port`, `https://host:port` or `unix:/path`.
    let address: String
    let endpoint: Endpoint
    /// `nil` for clear text.
    let tls: TLS?
    let log: ConnectFailureLog
    /// What came of connecting to it.
    let circuit = CircuitStatus()

    /// - Parameter tls: What all `https` targets of the upstream share.
    init(
        _ target: UpstreamTargetConfiguration, of upstream: UpstreamConfiguration, tls: NIOSSLContext?,
        resolver: HostResolver,
        logger: Logger
    ) {
        address = target.description
        var serverName: String?
        switch target.address {
        case .unixSocket(let path):
            endpoint = .socket(path: path)
        case .tcp(let address):
            if let known = try? SocketAddress(ipAddress: address.host, port: address.port) {
                endpoint = .address(known)
            } else {
                endpoint = .name(
                    TargetResolver(
                        host: address.host, port: address.port, interval: upstream.resolveInterval.wholeNanoseconds,
                        resolver: resolver))
                // Certificates and SNI know no dot at the end (RFC 6066 §3).
                serverName = address.host.hasSuffix(".") ? String(address.host.dropLast()) : address.host
            }
        }
        if target.scheme == .https, let tls {
            self.tls = TLS(context: tls, serverName: upstream.tls?.serverName ?? serverName)
        } else {
            self.tls = nil
        }
        var logger = logger
        logger[metadataKey: "upstream"] = "\(upstream.name)"
        logger[metadataKey: "target"] = "\(target)"
        log = ConnectFailureLog(logger)
    }

    /// A connection to it stands.
    func connectSucceeded() {
        circuit.succeeded()
    }

    /// It could not be reached. Said in the log now and then, and kept for operators.
    /// - Parameters:
    ///   - now: Nanoseconds of a clock that never goes backwards.
    ///   - time: The same moment by the wall clock.
    ///   - backOffEnd: Until when it is skipped, by the clock of `now`.
    func failed(
        _ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64, time: Timestamp, backOffEnd: UInt64
    ) {
        // Perhaps it has moved.
        if case .name(let addresses) = endpoint { addresses.markSuspect() }
        log.failed(kind, error, now: now)
        circuit.failed(kind, error, at: time, backOffEnd: backOffEnd)
    }
}
