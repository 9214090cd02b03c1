import CloakroomCore
import NIOSSL
import Synchronization

/// TLS state of a listener: the material that its connections use, until the files are read again.
///
/// All connections share one context and its keys for TLS session tickets, so a client can resume its session whichever
/// certificate it was shown. Resumption bypasses no requirement, because all certificates of a listener have the same
/// requirements on clients. A reload creates a new context; TLS session tickets of the old one then lead to a full
/// handshake.
///
/// Folder `TLS/`: the certificates of listeners, their selection by server name, their reload, and client certificates.
final class TLSListener: Sendable {
    private let allowsHTTP2: Bool
    private let current: Mutex<(configuration: ListenerTLSConfiguration, material: TLSMaterial)>

    /// Reads the files of the configuration.
    /// - Parameter section: Key of the configuration section; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(_ configuration: ListenerTLSConfiguration, allowsHTTP2: Bool, at section: [String] = []) throws {
        self.allowsHTTP2 = allowsHTTP2
        current = Mutex((configuration, try TLSMaterial(configuration, allowsHTTP2: allowsHTTP2, at: section)))
    }

    /// Creates the TLS handler of one connection.
    func makeHandler() throws -> NIOSSLServerHandler {
        NIOSSLServerHandler(context: current.withLock { $0.material.context })
    }

    /// Reads the files again: new connections use the new content, established ones continue. Atomic: applies all files
    /// or none.
    /// - Parameter afterReading: Called before the new material is activated.
    /// - Returns: Whether the requirements on clients have changed.
    /// - Throws: ``ListenerError`` which names the file; the previous material is kept.
    @discardableResult
    func reload(afterReading: () -> Void = {}) throws -> Bool {
        let configuration = current.withLock { $0.configuration }
        let material = try TLSMaterial(configuration, allowsHTTP2: allowsHTTP2)
        afterReading()
        return current.withLock { current in
            // The configuration may have been replaced while the files were read; then their content is discarded.
            current.configuration == configuration && Self.put(configuration, material, into: &current)
        }
    }

    /// Activates new material.
    /// - Returns: Whether the requirements on clients have changed.
    private static func put(
        _ configuration: ListenerTLSConfiguration, _ material: TLSMaterial,
        into current: inout (configuration: ListenerTLSConfiguration, material: TLSMaterial)
    ) -> Bool {
        defer { current = (configuration, material) }
        return configuration.clientCertificates != current.configuration.clientCertificates
            || configuration.minimumVersion != current.configuration.minimumVersion
            || material.clientAuthorities != current.material.clientAuthorities
    }

    /// Material that was read but is not active yet.
    struct PendingUpdate {
        /// Activates the material.
        /// - Returns: Whether the requirements on clients have changed.
        let commit: @Sendable () -> Bool
        /// Whether it admits clients that were rejected before.
        let relaxesClientAuth: Bool
    }

    /// Reads the files of a configuration without activating them.
    /// - Throws: ``ListenerError`` which names the file; the previous material is kept.
    func prepare(_ configuration: ListenerTLSConfiguration) throws -> PendingUpdate {
        let material = try TLSMaterial(configuration, allowsHTTP2: allowsHTTP2)
        let isRequired = configuration.clientCertificates?.mode == .required
        let wasRequired = current.withLock { $0.configuration.clientCertificates?.mode == .required }
        return PendingUpdate(
            commit: { self.current.withLock { Self.put(configuration, material, into: &$0) } },
            relaxesClientAuth: wasRequired && !isRequired)
    }

    var requestsCertificates: Bool { current.withLock { $0.configuration.clientCertificates != nil } }

    /// Certificates for new connections, the default first.
    var certificates: [ServerCertificate] { current.withLock { $0.material.certificates } }

    /// Whether a file has changed since it was read.
    var isOutdated: Bool {
        let (configuration, material) = current.withLock { $0 }
        return material.stamps != TLSMaterial.stamps(configuration)
    }
}
