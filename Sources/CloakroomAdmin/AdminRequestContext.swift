import Hummingbird
import NIOCore

/// What is known of a request besides itself.
struct AdminRequestContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The operator's address, without port; empty where it is not known.
    let peer: String

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        peer = source.channel.remoteAddress?.ipAddress ?? ""
    }
}
