import CloakroomCore
import CloakroomProxy
import Foundation

/// Prints the addresses of all listeners and example commands once all listeners have started.
actor DemoBanner {
    private let apiPort: Int
    private var listeners: [GatewayServer.BoundListener] = []
    private var adminPort: Int?

    init(apiPort: Int) {
        self.apiPort = apiPort
    }

    func gatewayListens(_ listeners: [GatewayServer.BoundListener]) {
        self.listeners = listeners
        printIfComplete()
    }

    func adminListens(_ port: Int) {
        adminPort = port
        printIfComplete()
    }

    private func printIfComplete() {
        guard let adminPort, let tls = listeners.first(where: \.isTLS)?.address.port,
            let clear = listeners.first(where: { !$0.isTLS })?.address.port
        else { return }
        let gateway = "https://localhost:\(tls)"
        let text = """

            Cloakroom is running. It is reachable from this machine only; all data is lost when it ends (Ctrl-C).

              gateway (TLS)    \(gateway)
              gateway (clear)  http://127.0.0.1:\(clear)
              admin            http://127.0.0.1:\(adminPort)
              mock API         http://127.0.0.1:\(apiPort)

            Open \(gateway)/ in a browser (it warns of the self-signed certificate)
            and sign in as jo@example.com / secret. Or use these commands:

              curl -sk \(gateway)/episodes
              curl -sk \(gateway)/videos/1
              curl -sk -c cookies.txt -X POST -u jo@example.com:secret \(gateway)/auth
              curl -sk -b cookies.txt \(gateway)/videos/1
              curl -sk -b cookies.txt -X DELETE \(gateway)/auth


            """
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }
}
