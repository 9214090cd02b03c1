import CloakroomCore

/// No two listeners want the same port.
enum ListenerAddressValidation {
    static func check(_ listeners: [ListenerSection], admin: AdminSection) {
        for (index, listener) in listeners.enumerated() {
            guard let address = listener.address, address.port != 0 else { continue }
            for other in listeners[..<index] where other.address == address {
                listener.scope.report(
                    ConfigValueError("\(address) is listened on already", "choose another port"), at: "address")
                break
            }
        }
        guard let address = admin.configuration?.address, address.port != 0,
            let listener = listeners.first(where: { $0.address?.port == address.port })
        else { return }
        if admin.scope.isSet("address") {
            admin.scope.report(
                ConfigValueError("port \(address.port) is a client listener's already", "choose another port"),
                at: "address")
        } else {
            listener.scope.report(
                ConfigValueError(
                    "port \(address.port) is the admin listener's", "choose another port, or set admin.address"),
                at: "address", becauseOf: [admin.scope.path + ["address"], admin.scope.path + ["enabled"]])
        }
    }
}
