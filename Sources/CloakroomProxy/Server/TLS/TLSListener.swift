import CloakroomCore
import NIOSSL
import Synchronization

/// The TLS side of a listener: what its connections are encrypted with, until the files are read again.
///
/// All connections share one context, and with it the keys of session tickets: a client that comes back resumes its
/// session whichever certificate it was shown. That cannot be used to slip past anything, since every certificate of a
/// listener comes with the same demands on clients. A reload makes a new context; tickets of the old one then lead to
/// a full handshake.
final class TLSListener: Sendable {
    private let allowsHTTP2: Bool
    private let current: Mutex<(configuration: ListenerTLSConfiguration, material: TLSMaterial)>

    /// Reads the files of the plan.
    /// - Parameter section: The key of the section that the plan was read from; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(_ configuration: ListenerTLSConfiguration, allowsHTTP2: Bool, at section: [String] = []) throws {
        self.allowsHTTP2 = allowsHTTP2
        current = Mutex((configuration, try TLSMaterial(configuration, allowsHTTP2: allowsHTTP2, at: section)))
    }

    /// The handler of one connection.
    func makeHandler() throws -> NIOSSLServerHandler {
        NIOSSLServerHandler(context: current.withLock { $0.material.context })
    }

    /// Reads the files again: new connections get what they hold now, those that stand go on. All of it or nothing.
    /// - Parameter afterReading: Is called before anything is put to use.
    /// - Returns: Whether clients have to show something else than before.
    /// - Throws: ``ListenerError`` which names the file; what was in effect stays.
    @discardableResult
    func reload(afterReading: () -> Void = {}) throws -> Bool {
        let configuration = current.withLock { $0.configuration }
        let material = try TLSMaterial(configuration, allowsHTTP2: allowsHTTP2)
        afterReading()
        return current.withLock { current in
            // While the files were read, another plan may have come into effect: what they hold is of no use to it.
            current.configuration == configuration && Self.put(configuration, material, into: &current)
        }
    }

    /// Puts material to use.
    /// - Returns: Whether clients have to show something else than before.
    private static func put(
        _ configuration: ListenerTLSConfiguration, _ material: TLSMaterial,
        into current: inout (configuration: ListenerTLSConfiguration, material: TLSMaterial)
    ) -> Bool {
        defer { current = (configuration, material) }
        return configuration.clientCertificates != current.configuration.clientCertificates
            || configuration.minimumVersion != current.configuration.minimumVersion
            || material.clientAuthorities != current.material.clientAuthorities
    }

    /// What other files come to, ready to be put to use.
    struct PendingUpdate {
        /// Puts it to use.
        /// - Returns: Whether clients have to show something else than before.
        let commit: @Sendable () -> Bool
        /// Whether clients that were refused so far may get in.
        let relaxesClientAuth: Bool
    }

    /// Reads the files of a plan, and does not put them to use yet.
    /// - Throws: ``ListenerError`` which names the file; what was in effect stays.
    func prepare(_ configuration: ListenerTLSConfiguration) throws -> PendingUpdate {
        let material = try TLSMaterial(configuration, allowsHTTP2: allowsHTTP2)
        let isRequired = configuration.clientCertificates?.mode == .required
        let wasRequired = current.withLock { $0.configuration.clientCertificates?.mode == .required }
        return PendingUpdate(
            commit: { self.current.withLock { Self.put(configuration, material, into: &$0) } },
            relaxesClientAuth: wasRequired && !isRequired)
    }

    /// What new connections get, the default first.
    var certificates: [ServerCertificate] { current.withLock { $0.material.certificates } }

    /// Whether a file is no longer the one that was read.
    var isOutdated: Bool {
        let (configuration, material) = current.withLock { $0 }
        return material.stamps != TLSMaterial.stamps(configuration)
    }
}
