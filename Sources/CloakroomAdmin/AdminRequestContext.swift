import Hummingbird
import NIOCore

/// Connection data of a request.
struct AdminRequestContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The operator's address, without port; empty if unknown.
    let peer: String

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        peer = source.channel.remoteAddress?.ipAddress ?? ""
    }
}
