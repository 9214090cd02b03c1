import CloakroomCore

/// No two listeners want the same port.
enum AddressRules {
    static func check(_ listeners: [ListenerConfig], admin: AdminConfig) {
        for (index, listener) in listeners.enumerated() {
            guard let address = listener.address, address.port != 0 else { continue }
            for other in listeners[..<index] where other.address == address {
                listener.scope.complain(
                    Mistake("\(address) is listened on already", "choose another port"), at: "address")
                break
            }
        }
        guard let address = admin.plan?.address, address.port != 0 else { return }
        guard listeners.contains(where: { $0.address?.port == address.port }) else { return }
        let mistake = Mistake("port \(address.port) is a client listener's already", "choose another port")
        admin.scope.complain(mistake, at: "address")
    }
}
