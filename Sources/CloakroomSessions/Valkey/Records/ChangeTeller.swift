import CloakroomCore

/// Tells the keeper of the local table what the server says of keys that were read here.
///
/// Leases, reasons and the throttle's keys are told of as well, because reading is what makes the server tell; nothing
/// is kept of them.
struct InvalidationForwarder: ValkeyPushDelegate {
    let keys: ValkeyKeys
    let changes: any RecordChangeDelegate

    func connectionChanged(isUp: Bool) {
        changes.connectionChanged(isUp: isUp)
    }

    func pushed(_ message: [RESPValue]) {
        guard message.count >= 2, message[0].text == "invalidate" else { return }
        guard let names = message[1].elements else {
            // No names: the whole database was emptied.
            changes.allRecordsChanged()
            return
        }
        for name in names {
            if let id = name.bytes.flatMap(keys.session(named:)) { changes.recordChanged(id) }
        }
    }
}
