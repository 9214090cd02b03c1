import CloakroomCore
import NIOCore

/// What becomes of a connection once it is accepted: it is let in or closed, and gets its pipeline.
struct ConnectionSetup: Sendable {
    private let plan: ListenerPlan
    private let tls: TLSListener?
    private let addresses: AddressLimit
    private let refusals: RefusalCounters

    init(_ plan: ListenerPlan, tls: TLSListener?, addresses: AddressLimit, refusals: RefusalCounters) {
        self.plan = plan
        self.tls = tls
        self.addresses = addresses
        self.refusals = refusals
    }

    /// Sets up a connection. Only on its event loop.
    /// - Throws: ``ConnectionRefusal``, or why there is no pipeline. The connection is to be closed then.
    func begin(_ channel: any Channel, context: LoopContext) throws {
        guard let sources = plan.proxyProtocolSources else {
            return try letIn(channel, context: context, sourceAddress: nil)
        }
        let address = channel.remoteAddress?.ipAddress
        guard let address, sources.contains(where: { $0.contains(address) }) else {
            throw refused(.proxySource)
        }
        try channel.pipeline.syncOperations.addHandler(
            ProxyHeaderHandler(channel: channel, context: context, setup: self))
    }

    /// Gives a connection what it is to talk to.
    /// - Parameter sourceAddress: The client's address where a PROXY header told it.
    func letIn(_ channel: any Channel, context: LoopContext, sourceAddress: String?) throws {
        // What a proxy sends for itself, such as a health check, is not held to the bound for clients.
        let client = plan.proxyProtocolSources == nil ? channel.remoteAddress?.ipAddress : sourceAddress
        if let client, !addresses.enter(client, until: channel.closeFuture) {
            throw refused(.connectionsPerAddress)
        }
        try DownstreamPipeline.add(
            to: channel, context: context, tls: try tls?.makeHandler(), allowsHTTP2: plan.http2,
            sourceAddress: sourceAddress)
    }

    /// Counts a refusal.
    func refused(_ refusal: ConnectionRefusal) -> ConnectionRefusal {
        refusals.count(refusal)
        return refusal
    }
}
